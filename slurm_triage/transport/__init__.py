"""How agents speak with the service: messages, who signed them, and the way they take.

Standard library only, and Python 3.9 is enough: the agent imports it. One file an idea: `message` (header and files as
bytes), `auth` (the seam: who sent this), `munge` and `key` (two ways to prove it), `wire` (a signed message on a
stream), `client` (asks one of several services), `shared_folder` and `killable` (the way
of nodes that cannot connect).
"""

#!/bin/sh
# The node's Prolog. It fails while /run/prolog-fails exists: that is how a scenario breaks a node.
[ ! -e /run/prolog-fails ]

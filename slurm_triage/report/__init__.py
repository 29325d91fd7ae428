"""Reports: a `Diagnosis` as text, one line, JSON document or explanation, and its delivery beside the job's output.

Everything but `delivery` is a pure function of the diagnosis (and, for the text, of the templates found).
"""

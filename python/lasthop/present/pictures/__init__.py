"""Pictures of a run.

`panels` holds the content, `marks` names and colours, and `static` draws it for papers.
"""

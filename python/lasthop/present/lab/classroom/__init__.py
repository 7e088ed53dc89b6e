"""The lab for a class: students with seeds of their own share the processors and answer questions."""

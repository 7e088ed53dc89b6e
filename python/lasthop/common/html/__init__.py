"""The common parts of HTML pages: templates, style, figures and their compression."""

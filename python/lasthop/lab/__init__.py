"""The lab: a page in the browser where one turns a knob and sees what TCP does."""

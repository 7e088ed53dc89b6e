"""The lab: a page in the browser where you turn a knob and see what TCP does."""

"""The lab: a page in the browser whose controls change a scenario and show the behaviour of TCP at once."""

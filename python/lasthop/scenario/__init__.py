"""Reading scenario files: their points, cells, and assumptions."""

"""Writers of a scenario's hop for live tools, a module for each tool."""

"""Published studies, their files and their claims."""

"""What all HTML pages share: template, style, figures and the packing of these."""

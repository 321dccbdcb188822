"""Tables, charts, figures, films and the page."""

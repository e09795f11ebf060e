"""The paper's tables, figures and theory, next to what is measured here."""

"""One engine for all studies: a file of trials, questions and texts -> runs -> answers by part -> page."""

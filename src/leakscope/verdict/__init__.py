"""From scores to a word, and from a word to a decision."""

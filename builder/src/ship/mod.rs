//! What is done with a produced image: run it, look into it.

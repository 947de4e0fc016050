"""Commands about the events of posts: naming them, following a stream, putting them right."""

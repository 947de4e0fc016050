"""Commands between organisations: the server, its members, a site and what left it."""

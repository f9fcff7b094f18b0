package login

// NewClient returns the HTTP client for metadata and tokens.
var NewClient = newClient

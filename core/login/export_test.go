package login

// NewClient is what requests for metadata and tokens are made with.
var NewClient = newClient

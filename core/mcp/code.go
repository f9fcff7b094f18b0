package mcp

// Error codes of JSON-RPC and MCP.
const (
	CodeParse              = -32700
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	CodeResourceNotFound   = -32002 // legacy; modern servers answer CodeInvalidParams
	CodeHeaderMismatch     = -32020 // modern
	CodeMissingCapability  = -32021 // modern
	CodeUnsupportedVersion = -32022 // modern
)

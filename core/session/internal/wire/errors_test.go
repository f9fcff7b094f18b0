package wire

import "testing"

// A code that a server repeats in its message is shown once. Message itself is unchanged, for the
// clients of a gateway.
func TestRPCErrorCodeOnce(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]string{
		"MCP error -32602: Tool x not found": "server error -32602: Tool x not found",
		"MCP error -32603: of another":       "server error -32602: MCP error -32603: of another",
		"plain":                              "server error -32602: plain",
	} {
		e := &RPCError{Code: -32602, Message: message}
		if got := e.Error(); got != want || e.Message != message {
			t.Errorf("%q, %q, want %q", got, e.Message, want)
		}
	}
}

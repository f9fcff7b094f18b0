package mcp

import "slices"

// The protocol version of the modern era, and the newest of the legacy era.
const (
	ModernVersion = "2026-07-28"
	LatestLegacy  = "2025-11-25"
)

// Versions returns all protocol versions that mcptrack speaks, the newest first.
func Versions() []string {
	return []string{ModernVersion, LatestLegacy, "2025-06-18", "2025-03-26", "2024-11-05"}
}

// IsLegacy reports whether mcptrack speaks a version and it belongs to the legacy era.
func IsLegacy(version string) bool {
	return version != ModernVersion && slices.Contains(Versions(), version)
}

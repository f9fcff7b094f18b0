package machine

import (
	"strings"

	"github.com/mcptrack/mcptrack/core/launcher"
)

// hostOf returns the name of a program that starts MCP servers, or "" for other programs. The names
// are those of processes of the released programs (November 2026).
func hostOf(args []string, l launch) string {
	if len(args) == 0 {
		return ""
	}
	name := launcher.Base(args[0])
	switch lower := strings.ToLower(name); {
	case strings.Contains(args[0], "/Claude.app/"), strings.HasPrefix(name, "Claude Helper"), name == "Claude", lower == "claude-desktop":
		return "Claude Desktop"
	case strings.HasPrefix(lower, "cursor helper"), lower == "cursor", lower == "cursor-agent":
		return "Cursor"
	case strings.HasPrefix(lower, "code helper"), lower == "code", lower == "code-insiders", lower == "codium":
		return "VS Code"
	case strings.HasPrefix(lower, "windsurf"):
		return "Windsurf"
	}
	if l.wraps {
		return ""
	}
	switch l.program {
	case "claude", "@anthropic-ai/claude-code":
		return "Claude Code"
	case "codex", "@openai/codex":
		return "Codex"
	case "opencode", "opencode-ai":
		return "opencode"
	case "gemini", "@google/gemini-cli":
		return "Gemini CLI"
	case "qwen", "@qwen-code/qwen-code":
		return "Qwen Code"
	case "copilot", "@github/copilot":
		return "GitHub Copilot CLI"
	case "zed", "zed-editor", "Zed":
		return "Zed"
	case "goose", "goosed", "Goose":
		return "Goose"
	case "crush", "@charmland/crush":
		return "Crush"
	case "amp", "@sourcegraph/amp":
		return "Amp"
	case "droid":
		return "Droid"
	case "kimi":
		return "Kimi Code"
	case "vibe":
		return "Mistral Vibe"
	case "qoder", "Qoder", "qodercli":
		return "Qoder"
	case "kiro", "Kiro", "kiro-cli":
		return "Kiro"
	case "q", "qchat":
		return "Amazon Q Developer"
	case "mcptrack":
		return "mcptrack"
	}
	return ""
}

module github.com/mcptrack/mcptrack/scripts/docs

go 1.26.5

require (
	github.com/buildkite/terminal-to-html/v3 v3.16.8
	github.com/chromedp/chromedp v0.22.1
	github.com/cpuguy83/go-md2man/v2 v2.0.6
	github.com/spf13/cobra v1.10.2
)

package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// declare registers what is there from the beginning to the end.
func (o *office) declare() {
	o.srv.AddResources(
		o.resource(clockURI, "clock", "text/plain", "The time, updated on every tick"),
		o.resource(guideURI, "guide.md", "text/markdown", "A document that gains and loses lines"),
		o.resource(flagsURI, "flags.json", "application/json", "Feature flags that flip"),
	)
	o.srv.AddResourceTemplate(
		mcp.NewResourceTemplate(inboxURI+"{number}", "message", mcp.WithTemplateDescription("A message by its number"), mcp.WithTemplateMIMEType("text/plain")),
		o.read,
	)
	o.srv.AddTool(mcp.NewTool("touch",
		mcp.WithDescription("Changes a resource at once and tells its subscribers"),
		mcp.WithString("uri", mcp.Required(), mcp.Description("A resource of this server, such as "+guideURI)),
	), o.callTouch)
	o.srv.AddTool(mcp.NewTool("set_interval",
		mcp.WithDescription("Sets the time between two changes"),
		mcp.WithNumber("milliseconds", mcp.Required(), mcp.Min(10), mcp.Max(3_600_000)),
	), o.callSetInterval)
	o.srv.AddPrompt(mcp.NewPrompt("explain_demo", mcp.WithPromptDescription("Asks what this demo does")),
		func(context.Context, mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			return prompt("What this demo does", "Explain the resources of this demo server, and how they change.")
		})
}

func (o *office) resource(uri, name, mimeType, description string) server.ServerResource {
	return server.ServerResource{
		Resource: mcp.NewResource(uri, name, mcp.WithMIMEType(mimeType), mcp.WithResourceDescription(description)),
		Handler:  o.read,
	}
}

func (o *office) offerMessage(m *message) {
	o.srv.AddResources(o.resource(m.uri, "message from "+m.from, "text/plain", m.subject))
}

// offerTranslate brings the tool into its present form.
func (o *office) offerTranslate() {
	languages := []string{"de", "fr"}
	description := "Translates a text"
	switch o.translate {
	case 0:
		o.srv.DeleteTools("translate")
		return
	case 2:
		languages = append(languages, "ja")
		description = "Translates a text, now to Japanese as well"
	}
	o.srv.AddTool(mcp.NewTool("translate",
		mcp.WithDescription(description),
		mcp.WithString("text", mcp.Required()),
		mcp.WithString("to", mcp.Required(), mcp.Enum(languages...)),
	), func(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text, to := r.GetString("text", ""), r.GetString("to", "")
		if !slices.Contains(languages, to) {
			return mcp.NewToolResultError(fmt.Sprintf("to: %q is not one of %q", to, languages)), nil
		}
		return mcp.NewToolResultText(fmt.Sprintf("[%s] %s", to, text)), nil
	})
}

// offerSummarize brings the prompt into its present form.
func (o *office) offerSummarize() {
	options := []mcp.PromptOption{mcp.WithPromptDescription("Summarizes the inbox")}
	switch o.summarize {
	case 0:
		o.srv.DeletePrompts("summarize_inbox")
		return
	case 2:
		options = append(options, mcp.WithArgument("style", mcp.ArgumentDescription("short or long")))
	}
	o.srv.AddPrompt(mcp.NewPrompt("summarize_inbox", options...),
		func(_ context.Context, r mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			var text strings.Builder
			text.WriteString("Summarize these messages")
			if style := r.Params.Arguments["style"]; style != "" {
				text.WriteString(" in " + style + " form")
			}
			text.WriteString(":\n")
			for _, m := range o.inbox {
				text.WriteString(fmt.Sprintf("- %s: %s\n", m.from, m.subject))
			}
			return prompt("Summary of the inbox", text.String())
		})
}

func prompt(description, text string) (*mcp.GetPromptResult, error) {
	return mcp.NewGetPromptResult(description, []mcp.PromptMessage{
		mcp.NewPromptMessage(mcp.RoleUser, mcp.NewTextContent(text)),
	}), nil
}

func (o *office) read(_ context.Context, r mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
	mimeType, text, ok := o.content(r.Params.URI)
	if !ok {
		return nil, fmt.Errorf("%w: %s", server.ErrResourceNotFound, r.Params.URI)
	}
	return []mcp.ResourceContents{mcp.TextResourceContents{URI: r.Params.URI, MIMEType: mimeType, Text: text}}, nil
}

func (o *office) callTouch(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	uri, err := r.RequireString("uri")
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	if !o.touch(uri) {
		return mcp.NewToolResultError(fmt.Sprintf("there is no resource %q", uri)), nil
	}
	return mcp.NewToolResultText(fmt.Sprintf("%s was touched %d times", uri, o.touches[uri])), nil
}

// callSetInterval takes effect with the next tick, counted from now.
func (o *office) callSetInterval(_ context.Context, r mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	ms, err := r.RequireInt("milliseconds")
	if err != nil {
		return mcp.NewToolResultError(err.Error()), nil
	}
	// Bounded before the multiplication, which could overflow.
	o.interval = clamp(time.Duration(min(max(ms, 0), 3_600_000)) * time.Millisecond)
	return mcp.NewToolResultText(fmt.Sprintf("one change every %s", o.interval)), nil
}

//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// look is what look.mjs prints.
type look struct {
	Tools, Prompts, Resources, Templates []map[string]any
	Answers                              []map[string]any
}

func lookAt(t *testing.T, era string, requests []map[string]any, target ...string) look {
	t.Helper()
	q, err := json.Marshal(requests)
	if err != nil {
		t.Fatal(err)
	}
	var saw look
	unmarshalPeer(t, peerScript(t, "look.mjs", append([]string{era, string(q)}, target...)...), &saw)
	for _, list := range [][]map[string]any{saw.Tools, saw.Prompts, saw.Resources, saw.Templates} {
		slices.SortFunc(list, func(a, b map[string]any) int { return strings.Compare(keyOf(a), keyOf(b)) })
	}
	for _, tool := range saw.Tools {
		delete(tool, "execution") // which the SDK does not show in the modern era
	}
	for _, a := range saw.Answers {
		if progress, _ := a["progress"].([]any); len(progress) > 3 {
			a["progress"] = progress[:3] // the SDK drops what comes together with the answer
		}
		if result, ok := a["result"].(map[string]any); ok { // the servers describe themselves differently
			for _, of := range []string{"_meta", "resultType", "ttlMs", "cacheScope"} {
				delete(result, of)
			}
		}
	}
	return saw
}

func keyOf(item map[string]any) string {
	for _, k := range []string{"uri", "uriTemplate", "name"} {
		if s, ok := item[k].(string); ok {
			return s
		}
	}
	return ""
}

// In front of a real server the gateway answers as the server itself does, item by
// item, over both transports and to clients of both eras.
func TestGatewayAnswersLikeItsServer(t *testing.T) {
	type request = map[string]any
	with := func(args ...any) map[string]any {
		m := map[string]any{}
		for i := 0; i < len(args); i += 2 {
			m[args[i].(string)] = args[i+1]
		}
		return m
	}
	everything := []request{
		{"tool": "echo", "arguments": with("message", "<ünï & code>\n")},
		{"tool": "get-sum", "arguments": with("a", 1.5, "b", -3)},
		{"tool": "get-sum", "arguments": with("a", "no number")},
		{"tool": "get-tiny-image"},
		{"tool": "get-structured-content", "arguments": with("location", "New York")},
		{"tool": "get-annotated-message", "arguments": with("messageType", "error", "includeImage", true)},
		{"tool": "get-resource-links", "arguments": with("count", 3)},
		{"tool": "trigger-long-running-operation", "arguments": with("duration", 1, "steps", 4)},
		{"prompt": "simple-prompt"},
		{"prompt": "args-prompt", "arguments": with("city", "Paris", "state", "Texas")},
		{"prompt": "args-prompt"},
		{"read": "demo://resource/static/document/features.md"},
		{"read": "demo://resource/none"},
		{"complete": with("ref", with("type", "ref/prompt", "name", "completable-prompt"), "argument", with("name", "department", "value", "E"))},
		{"complete": with("ref", with("type", "ref/resource", "uri", "demo://resource/dynamic/text/{resourceId}"), "argument", with("name", "resourceId", "value", "1"))},
	}
	gosdk := []request{
		{"tool": "test_simple_text"}, {"tool": "test_image_content"}, {"tool": "test_audio_content"},
		{"tool": "test_x_mcp_header", "arguments": with("region", "us-west1", "level", 3)},
		{"tool": "test_embedded_resource"}, {"tool": "test_multiple_content_types"}, {"tool": "test_error_handling"},
		{"prompt": "test_simple_prompt"}, {"prompt": "test_prompt_with_arguments", "arguments": with("arg1", "a", "arg2", "b")},
		{"prompt": "test_prompt_with_embedded_resource", "arguments": with("resourceUri", "test://static-text")},
		{"prompt": "test_prompt_with_image"},
		{"read": "test://static-text"}, {"read": "test://static-binary"}, {"read": "test://template/7/data"},
	}
	for _, c := range []struct {
		peer     string
		era      string // that the peer speaks with its client when asked directly
		requests []request
	}{
		{"everything-stdio", "legacy", everything}, {"everything-http", "legacy", everything},
		{"gosdk-stdio", "legacy", gosdk}, {"gosdk-http", "legacy", gosdk}, {"gosdk-stateless", "modern", gosdk},
	} {
		t.Run(c.peer, func(t *testing.T) {
			t.Parallel()
			p := startPeer(t, c.peer)
			var entry peerEntry
			unmarshalPeer(t, []byte(p.Config), &entry)
			entry.OnConnect = nil // what is compared must not change
			direct := []string{entry.URL}
			if entry.URL == "" {
				direct = append([]string{entry.Command}, entry.Args...)
			}
			want := lookAt(t, c.era, c.requests, direct...)
			if len(want.Tools) == 0 || len(want.Resources) == 0 {
				t.Fatalf("the peer shows little: %+v", want)
			}
			file := filepath.Join(t.TempDir(), "mcp-servers.json")
			save(t, file, config(fmt.Sprintf("%q: %s", c.peer, marshalPeer(t, entry))))
			url := startGateway(t, "--config", file)
			for _, era := range []string{"legacy", "modern"} {
				for transport, target := range map[string][]string{
					"http": {url}, "stdio": {mcptrackPath(t), "gateway", "--stdio", "--config", file},
				} {
					t.Run(era+" "+transport, func(t *testing.T) {
						got := lookAt(t, era, c.requests, target...)
						if diff := cmp.Diff(want, got); diff != "" {
							t.Errorf("direct (-), through the gateway (+)\n%s", diff)
						}
					})
				}
			}
		})
	}
}

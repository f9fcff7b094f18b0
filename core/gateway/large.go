package gateway

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/internal/rawjson"
)

// A result of a tool that is larger than the server's "maxResult" keeps as much of its content, in order, as fits: the
// last text is cut, and what follows it and the structured content are left out. A text and a link say where the
// whole result is: a resource that only the client with the same credentials can read. As a cut result has no
// structured content, the tools of such a server are listed without an outputSchema.

const (
	resultPrefix = "mcptrack://result/" // of the URIs of whole results

	maxLarge  = 32 << 20 // bytes of all whole results that are kept; the principal with most loses its oldest
	largeLife = 15 * time.Minute
)

// largeResults keeps whole results. The zero value is ready to use.
type largeResults struct {
	mu  sync.Mutex
	all []largeResult // oldest first
}

type largeResult struct {
	uri, principal string
	raw            json.RawMessage
	until          time.Time
}

// keep keeps a result for a principal, and returns its URI, or "" if it is too large.
func (l *largeResults) keep(principal string, raw json.RawMessage) (uri string) {
	if len(raw) > maxLarge {
		return ""
	}
	now := time.Now()
	kept := largeResult{resultPrefix + rand.Text(), principal, bytes.Clone(raw), now.Add(largeLife)}
	l.expire(now)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, kept)
	for {
		total, sizes, most := 0, map[string]int{}, principal
		for _, r := range l.all {
			total += len(r.raw)
			if sizes[r.principal] += len(r.raw); sizes[r.principal] > sizes[most] {
				most = r.principal
			}
		}
		if total <= maxLarge {
			return kept.uri
		}
		oldest := slices.IndexFunc(l.all, func(r largeResult) bool { return r.principal == most })
		l.all = slices.Delete(l.all, oldest, oldest+1)
	}
}

// expire forgets the results whose time is over.
func (l *largeResults) expire(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = slices.DeleteFunc(l.all, func(r largeResult) bool { return now.After(r.until) })
}

// read returns a result as the result of resources/read: an element for each text, and for each other part as JSON. It
// returns nil if the principal has no such result.
func (l *largeResults) read(uri, principal string) json.RawMessage {
	if !strings.HasPrefix(uri, resultPrefix) {
		return nil
	}
	l.mu.Lock()
	i := slices.IndexFunc(l.all, func(r largeResult) bool {
		return r.uri == uri && r.principal == principal && time.Now().Before(r.until)
	})
	var raw json.RawMessage
	if i >= 0 {
		raw = l.all[i].raw
	}
	l.mu.Unlock()
	if raw == nil {
		return nil
	}
	var contents []map[string]string
	add := func(mimeType, text string) {
		contents = append(contents, map[string]string{"uri": uri, "mimeType": mimeType, "text": text})
	}
	result := fields(raw)
	for _, block := range rawjson.Elements(result["content"]) {
		if text, ok := textOf(block); ok {
			add("text/plain", text)
		} else {
			add("application/json", string(block))
		}
	}
	if structured := result["structuredContent"]; structured != nil {
		add("application/json", string(structured))
	}
	return encode(map[string]any{"contents": contents})
}

// textOf returns the text of a content block, unless it is of another type.
func textOf(block json.RawMessage) (text string, ok bool) {
	is := fields(block)
	return text, string(is["type"]) == `"text"` && isString(is["text"]) && json.Unmarshal(is["text"], &text) == nil
}

// bounded returns the result of a call with at most as much content as the server's "maxResult" allows.
func (rt *route) bounded(raw json.RawMessage) json.RawMessage {
	limit := rt.state().entry.MaxResult
	if limit == 0 || int64(len(raw)) <= limit {
		return raw
	}
	result := fields(raw)
	if kind := result["resultType"]; result["task"] != nil || kind != nil && string(kind) != `"complete"` {
		return raw // the call has not ended
	}
	left, cut := limit, false
	content := []json.RawMessage{}
	for _, block := range rawjson.Elements(result["content"]) {
		text, isText := textOf(block)
		beside := int64(len(block)) // all but the text, as an encoded character counts as it is decoded
		if isText {
			beside -= int64(len(fields(block)["text"]))
		}
		size := beside + int64(len(text))
		if cut = size > left; !cut {
			content, left = append(content, block), left-size
			continue
		}
		if isText && left > beside {
			block, _ = within(block, "text", func(json.RawMessage) (json.RawMessage, bool) {
				return quote(strings.ToValidUTF8(text[:left-beside], "")), true
			})
			content = append(content, block)
		}
		break
	}
	if !cut && int64(len(result["structuredContent"])) <= left {
		return raw // only its encoding is larger
	}
	uri := rt.g.large.keep(rt.r.Principal, raw)
	note := fmt.Sprintf("[mcptrack: this is part of a result of %d bytes, because the server has \"maxResult\" %d.", len(raw), limit)
	if uri != "" {
		note += fmt.Sprintf(" To get the whole result, read the resource %s within %d minutes.", uri, largeLife/time.Minute)
	}
	content = append(content, encode(map[string]string{"type": "text", "text": note + "]"}))
	if uri != "" && rt.r.Version >= "2025-06-18" {
		content = append(content, encode(map[string]string{"type": "resource_link", "uri": uri, "name": "whole result"}))
	}
	rest := slices.DeleteFunc(rawjson.Members(raw), func(m rawjson.Member) bool { return m.Name == "structuredContent" || m.Name == "content" })
	return writeMembers(append([]rawjson.Member{{Name: "content", Value: encode(content)}}, rest...))
}

package observe

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/glob"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

const (
	maxContents = 1000 // how many resources of one server may be read
	readAtOnce  = 8    // how many resources of one server are read concurrently
)

// contents returns the items for the contents of the resources that globs match or known has, in the order
// of their URIs. A resource that has no content any more has no item.
func contents(ctx context.Context, s *session.Session, resources catalog.List, globs, known []string, h lock.Hashing) ([]lock.Item, error) {
	matching := slices.DeleteFunc(resources.Keys(), func(uri string) bool {
		return !slices.Contains(known, uri) && !slices.ContainsFunc(globs, func(g string) bool { return glob.Match(g, uri) })
	})
	if len(matching) > maxContents {
		return nil, fmt.Errorf("\"pinContent\" and the lock pin the contents of %d resources; the limit is %d", len(matching), maxContents)
	}
	found := make([]lock.Item, len(matching))
	failures := make([]error, len(matching))
	var reads sync.WaitGroup
	slots := make(chan struct{}, readAtOnce)
	for i, uri := range matching {
		slots <- struct{}{}
		reads.Go(func() {
			defer func() { <-slots }()
			content, err := s.Read(ctx, uri)
			if err == nil {
				text, isText := content.Text()
				data := []byte(text)
				if !isText {
					data, err = bytesOf(content.Raw)
				}
				found[i] = h.Item(lock.SectionContents, lock.Content(uri, content.MimeType, data, isText))
			}
			if err != nil && !errors.Is(err, session.ErrNotFound) {
				failures[i] = fmt.Errorf("%s: %w", printable.Line(uri, 200), err)
			}
		})
	}
	reads.Wait()
	found = slices.DeleteFunc(found, func(it lock.Item) bool { return it.Definition == nil })
	if i := slices.IndexFunc(failures, func(err error) bool { return err != nil }); i >= 0 {
		return nil, failures[i]
	}
	return found, nil
}

// bytesOf returns the texts and decoded blobs of a result, joined.
func bytesOf(raw json.RawMessage) (data []byte, err error) {
	var result struct {
		Contents []struct {
			Text string `json:"text"`
			Blob string `json:"blob"`
		} `json:"contents"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, errors.New("its content is malformed")
	}
	for _, c := range result.Contents {
		blob, err := base64.StdEncoding.DecodeString(c.Blob)
		if err != nil {
			return nil, errors.New("its content is not valid base64")
		}
		data = append(append(data, c.Text...), blob...)
	}
	return data, nil
}

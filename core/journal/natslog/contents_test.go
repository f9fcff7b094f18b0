package natslog

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
)

func textDigest(text string) catalog.Digest { return sha256.Sum256([]byte(text)) }

func putAll(t *testing.T, j *Log, texts ...string) {
	t.Helper()
	for _, text := range texts {
		j.Contents().Put(textDigest(text), text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := j.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

func hasText(t *testing.T, j *Log, text string) bool {
	t.Helper()
	got, ok, err := j.Contents().Get(t.Context(), textDigest(text))
	if err != nil || ok && got != text {
		t.Fatalf("%.20q: %q, %v", text, got, err)
	}
	return ok
}

// Texts outlive a restart, and processes that store none can read them.
func TestRealContentsOutliveTheProcess(t *testing.T) {
	t.Parallel()
	opts := onServer(t)
	opts.KeepContent = 1 << 20
	j := open(t, opts)
	putAll(t, j, "one", "two", "", strings.Repeat("large ", 100_000))
	closeLog(t, j)

	without, existing := opts, opts
	without.KeepContent, existing.Existing = 0, true
	for what, opts := range map[string]Options{"again": opts, "without texts": without, "reader": existing} {
		j := open(t, opts)
		for _, text := range []string{"one", "two", "", strings.Repeat("large ", 100_000)} {
			if !hasText(t, j, text) {
				t.Errorf("%s: %.20q is gone", what, text)
			}
		}
		if opts != without && opts != existing {
			continue
		}
		putAll(t, j, what)
		if hasText(t, j, what) {
			t.Errorf("%s: a text was stored", what)
		}
		stored, err := j.Contents().Stored(t.Context(), []catalog.Digest{textDigest("one"), textDigest("three"), {}, textDigest("one")})
		if err != nil || len(stored) != 1 || !stored[textDigest("one")] {
			t.Errorf("%s: stored: %v, %v", what, stored, err)
		}
	}
}

// Texts that come faster than they are stored are dropped.
func TestContentsNeverWait(t *testing.T) {
	t.Parallel()
	c := newContents(&store{opts: Options{KeepContent: 1 << 30}})
	text := strings.Repeat("x", 128<<10)
	for i := range 300 {
		c.Put(textDigest(fmt.Sprint(i)), text) // nobody stores
	}
	if c.queued > maxContentQueue || c.Dropped() == 0 || len(c.queue) < 100 {
		t.Errorf("%d bytes in %d texts wait, %d were dropped", c.queued, len(c.queue), c.Dropped())
	}
}

// A text that is put just before Close is stored.
func TestRealTextsOfTheEndAreStored(t *testing.T) {
	t.Parallel()
	opts := onServer(t)
	opts.KeepContent = 1 << 20
	var put []catalog.Digest
	for n := range 20 {
		j := open(t, opts)
		text := fmt.Sprint(n)
		put = append(put, textDigest(text))
		j.Contents().Put(textDigest(text), text)
		closeLog(t, j)
	}
	found, err := open(t, opts).Contents().Stored(t.Context(), put)
	if len(found) != len(put) || err != nil {
		t.Errorf("%d of %d texts are stored, %v", len(found), len(put), err)
	}
}

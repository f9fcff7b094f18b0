package journal

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/nats-io/nats.go/jetstream"
)

func textDigest(text string) catalog.Digest { return sha256.Sum256([]byte(text)) }

func putAll(t *testing.T, j *Journal, texts ...string) {
	t.Helper()
	for _, text := range texts {
		j.Contents.Put(textDigest(text), text)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := j.Flush(ctx); err != nil {
		t.Fatal(err)
	}
}

func hasText(t *testing.T, j *Journal, text string) bool {
	t.Helper()
	got, ok, err := j.Contents.Get(t.Context(), textDigest(text))
	if err != nil || ok && got != text {
		t.Fatalf("%.20q: %q, %v", text, got, err)
	}
	return ok
}

// TestContentsOutliveTheProcess: texts are there after a restart, for the process that
// has the directory and for those that read beside it, until they are turned off.
func TestContentsOutliveTheProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := open(t, Options{Dir: dir, KeepContent: 1 << 20})
	putAll(t, j, "one", "two", "", strings.Repeat("large ", 100_000))
	closeJournal(t, j)

	j = open(t, Options{Dir: dir, KeepContent: 1 << 20})
	reader := open(t, Options{Dir: dir, Existing: true})
	for _, at := range []*Journal{j, reader} {
		for _, text := range []string{"one", "two", "", strings.Repeat("large ", 100_000)} {
			if !hasText(t, at, text) {
				t.Errorf("%.20q is gone", text)
			}
		}
		if hasText(t, at, "three") {
			t.Error("a text that was never stored is there")
		}
		stored, err := at.Contents.Stored(t.Context(), []catalog.Digest{textDigest("one"), textDigest("three"), {}, textDigest("one")})
		if err != nil || len(stored) != 1 || !stored[textDigest("one")] {
			t.Errorf("stored: %v, %v", stored, err)
		}
	}
	closeJournal(t, reader)
	closeJournal(t, j)

	j = open(t, Options{Dir: dir})
	putAll(t, j, "four")
	for _, text := range []string{"one", "four"} {
		if hasText(t, j, text) {
			t.Errorf("%q is stored, though texts are turned off", text)
		}
	}
}

// TestContentsAreBounded: the oldest texts are removed first, and what is too large or
// cannot wait is dropped.
func TestContentsAreBounded(t *testing.T) {
	t.Parallel()
	j := open(t, Options{Dir: t.TempDir(), KeepContent: 1 << 20, Durability: OS})
	random := rand.New(rand.NewPCG(1, 2))
	var texts []string
	for range 64 { // that cannot be compressed: 64 KiB each
		b := make([]byte, 64<<10)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		texts = append(texts, string(b))
		putAll(t, j, string(b))
	}
	if hasText(t, j, texts[0]) || !hasText(t, j, texts[63]) {
		t.Error("the oldest text is there, or the newest is not")
	}
	putAll(t, j, texts[0]) // it is known, but was removed
	if !hasText(t, j, texts[0]) {
		t.Error("a text that was removed is not stored again")
	}
	if n := j.Contents.Dropped(); n != 0 {
		t.Errorf("%d texts were dropped", n)
	}
	putAll(t, j, strings.Repeat("x", maxContent+1))
	if hasText(t, j, strings.Repeat("x", maxContent+1)) {
		t.Error("a text above the limit is stored")
	}
}

// TestContentsNeverWait: texts that come faster than they are stored are dropped.
func TestContentsNeverWait(t *testing.T) {
	t.Parallel()
	s := &store{opts: Options{KeepContent: 1 << 30}}
	c := newContents(s)
	if c.pub != nil {
		t.Fatal("opened")
	}
	conn := open(t, Options{Dir: t.TempDir(), KeepContent: 1 << 30})
	s.nc = conn.store.nc
	random := rand.New(rand.NewPCG(3, 4))
	for i := range 300 {
		b := make([]byte, 128<<10)
		for k := range b {
			b[k] = byte(random.Uint32())
		}
		c.Put(textDigest(fmt.Sprint(i)), string(b)) // nobody stores
	}
	if c.queued > maxContentQueue || c.Dropped() == 0 || c.waiting() < 100 {
		t.Errorf("%d bytes in %d texts wait, %d were dropped", c.queued, c.waiting(), c.Dropped())
	}
}

// A log without texts has none of them, and that is no error.
func TestNoTextsWereEverStored(t *testing.T) {
	t.Parallel()
	j := open(t, Options{Dir: t.TempDir()})
	if stored, err := j.Contents.Stored(t.Context(), []catalog.Digest{textDigest("one")}); err != nil || len(stored) != 0 {
		t.Errorf("%v, %v", stored, err)
	}
	if hasText(t, j, "one") {
		t.Error("a text is there")
	}
}

// A consumer ends with its node: which texts are stored is then asked of another one.
func TestStoredOutlivesConsumers(t *testing.T) {
	t.Parallel()
	j := open(t, Options{Dir: t.TempDir(), KeepContent: 1 << 20, Durability: OS})
	var digests []catalog.Digest
	for i := range 200 {
		text := fmt.Sprint("text ", i)
		j.Contents.Put(textDigest(text), text)
		digests = append(digests, textDigest(text))
	}
	putAll(t, j)
	stream, err := j.store.js.Stream(t.Context(), j.Contents.stream())
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		deleted := make(chan error, 1)
		go func() { // as soon as there is one
			for {
				for name := range stream.ConsumerNames(t.Context()).Name() {
					deleted <- stream.DeleteConsumer(t.Context(), name)
					return
				}
				if t.Context().Err() != nil {
					return
				}
			}
		}()
		if stored, err := j.Contents.Stored(t.Context(), digests); err != nil || len(stored) != len(digests) {
			t.Errorf("%d of %d texts, %v", len(stored), len(digests), err)
		}
		if err := <-deleted; err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
			t.Fatal(err)
		}
	}
}

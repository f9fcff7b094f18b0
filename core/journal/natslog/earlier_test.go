package natslog

import (
	"encoding/json"
	"maps"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// The leases of an earlier version do not expire in the store, so one of a process that was killed is
// taken once nobody renews it, and the bucket is made to let them expire.
func TestRealLeaseThatDoesNotExpire(t *testing.T) {
	t.Parallel()
	j := open(t, onServer(t))
	cfg := j.leases.config
	cfg.LimitMarkerTTL = 0
	kv, err := j.store.js.CreateKeyValue(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kv.Put(t.Context(), leaseKey("docs"), []byte(`{"holder":"killed","instance":"another","ttlMs":2000,"beat":7}`)); err != nil {
		t.Fatal(err)
	}
	const ttl = 2 * time.Second
	acquire(t, j, "docs", ttl).Release()
	acquire(t, j, "docs", ttl).Release()
	info, err := kv.Status(t.Context())
	if bucket, ok := info.(*jetstream.KeyValueBucketStatus); err != nil || !ok || bucket.LimitMarkerTTL() != leaseMarkers {
		t.Errorf("markers are kept for %v: %v", bucket.LimitMarkerTTL(), err)
	}
}

func TestRealListOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	j := open(t, onServer(t))
	_, x := catalog.Text("x")
	items := map[string]string{"x": x.String()}
	put := func(parts int) {
		t.Helper()
		data, err := json.Marshal(map[string]any{"serverId": tools.ServerID, "list": tools.Kind, "version": "v", "parts": parts, "items": items, "when": time.Now()})
		if err == nil {
			_, err = j.store.js.Publish(t.Context(), j.store.subjects.of("state."+knownList{name: tools}.subject()), data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put(1)
	if got := toolsOf(t, j); !maps.Equal(got, map[string]catalog.Digest{"x": x}) {
		t.Errorf("read %v", got)
	}
	put(2) // the other part is not read, so the list is unknown
	if got := toolsOf(t, j); got != nil {
		t.Errorf("read %v of a part", got)
	}
}

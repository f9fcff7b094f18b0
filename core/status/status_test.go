package status

import (
	"fmt"
	"testing"

	"github.com/mcptrack/mcptrack/core/event"
)

// A renamed snapshot has only the named servers, sorted by their new ids, and leaves the original as it
// is.
func TestRenamed(t *testing.T) {
	last := &event.Event{ServerID: "a~1", ResourceURI: "file:///x"}
	s := &Snapshot{Epoch: "e", Seq: 7, Servers: []ServerStatus{
		{ID: "a~1", Resources: []ResourceStatus{{URI: "file:///x", Last: last}, {URI: "file:///y"}}}, {ID: "b~2"}, {ID: "c~3"}}}
	got := s.Renamed(map[string]string{"a~1": "z", "c~3": "c", "none": "n"})
	var ids []string
	for _, st := range got.Servers {
		ids = append(ids, st.ID)
	}
	if fmt.Sprint(ids) != "[c z]" || got.Epoch != "e" || got.Seq != 7 {
		t.Errorf("%v, %+v", ids, got)
	}
	if st, ok := got.Server("z"); !ok || len(st.Resources) != 2 || st.Resources[0].Last.ServerID != "z" {
		t.Errorf("%+v", st)
	}
	if s.Servers[0].ID != "a~1" || last.ServerID != "a~1" || s.Servers[0].Resources[0].Last != last {
		t.Error("the original has changed")
	}
}

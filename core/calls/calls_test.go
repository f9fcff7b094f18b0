package calls

import (
	"encoding/json"
	"testing"
	"time"
)

func TestMemoryKeepsTheNewest(t *testing.T) {
	t.Parallel()
	var m Memory
	for i := range 2*maxMemory + 7 {
		m.Add(Call{Code: i})
	}
	if all, err := m.Read(t.Context(), Query{}); err != nil || len(all) != MaxRead || all[0].Code != maxMemory+7 {
		t.Errorf("%d calls from %d on, %v", len(all), all[0].Code, err)
	}
	newest, err := m.Read(t.Context(), Query{Newest: 2})
	if err != nil || len(newest) != 2 || newest[1].Code != 2*maxMemory+6 || newest[0].ID >= newest[1].ID {
		t.Errorf("%+v, %v", newest, err)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	c := Call{ID: 1795948800123456, Client: "a", Session: "b", ServerID: "c", Tool: "d", Outcome: Error, Code: -32603, Duration: 1234567 * time.Nanosecond, Bytes: 5}
	text, err := json.Marshal(c)
	const want = `{"id":1795948800123456,"time":"2026-11-29T10:40:00.123Z","client":"a","session":"b","serverId":"c","tool":"d","outcome":"error","code":-32603,"ms":1.234,"bytes":5}`
	if err != nil || string(text) != want {
		t.Errorf("%s, %v", text, err)
	}
	var again Call
	c.Duration = c.Duration.Truncate(time.Microsecond)
	if err := json.Unmarshal(text, &again); err != nil || again != c {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestByTool(t *testing.T) {
	t.Parallel()
	list := []Call{{Tool: "b", Outcome: Error}}
	for i := range 100 {
		c := Call{Tool: "a", Outcome: OK, Duration: time.Duration(100-i) * time.Millisecond}
		if i < 3 {
			c.Outcome = ToolError
		}
		list = append(list, c)
	}
	got := ByTool(list)
	if len(got) != 2 || got[0] != (ToolStats{Tool: "a", Calls: 100, ToolErrors: 3, P50: 50, P95: 95}) || got[1] != (ToolStats{Tool: "b", Calls: 1, Errors: 1}) {
		t.Errorf("%+v", got)
	}
}

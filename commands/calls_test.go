package commands

import (
	"context"
	"errors"
	"sort"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/output/remote"
)

// The calls of all places are printed once: first those that are stored, in their order, and then those
// that follow, also while a query selects none.
func TestCallsAreFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a, b calls.Memory
		for range calls.MaxRead + 5 {
			a.Add(calls.Call{Outcome: calls.OK})
		}
		b.Add(calls.Call{Outcome: calls.Error})
		for q, want := range map[calls.Query]int{{}: calls.MaxRead + 6, {Failed: true}: 1, {Client: "late"}: 0} {
			ctx, cancel := context.WithCancel(t.Context())
			var got []calls.Call
			err := eachCall(ctx, []readCalls{a.Read, b.Read}, q, true, func(list []calls.Call) error {
				switch got = append(got, list...); len(got) {
				case want:
					time.Sleep(time.Second) // the clock of the bubble has not moved before
					b.Add(calls.Call{Client: "late", Outcome: calls.Error})
				case want + 1:
					cancel()
				default:
					t.Fatalf("%+v: %d calls", q, len(got))
				}
				return nil
			})
			if !errors.Is(err, context.Canceled) || !sort.SliceIsSorted(got, func(i, j int) bool { return got[i].ID < got[j].ID }) || got[want].Client != "late" {
				t.Errorf("%+v: %d calls, %v", q, len(got), err)
			}
			b = calls.Memory{}
			b.Add(calls.Call{Outcome: calls.Error})
		}
	})
}

// A gateway that does not answer for a while, as it starts again, is followed without a gap.
func TestCallsOfARestartedGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var m calls.Memory
		m.Add(calls.Call{})
		asked, got := 0, 0
		err := eachCall(ctx, []readCalls{func(ctx context.Context, q calls.Query) ([]calls.Call, error) {
			if asked++; asked == 2 {
				return nil, &remote.UnreachableError{Err: errors.New("refused")}
			}
			return m.Read(ctx, q)
		}}, calls.Query{}, true, func(list []calls.Call) error {
			got += len(list)
			return nil
		})
		if got != 1 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d calls, %v", got, err)
		}
	})
}

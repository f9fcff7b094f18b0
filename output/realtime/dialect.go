package realtime

// A dialect is how one API adds text to a conversation and acknowledges it. Dialects
// have no state.
type dialect interface {
	// limits bound one item.
	limits() limits
	// create returns the client event that adds the messages as one item. Its event id is
	// itemEventPrefix and the item id without its prefix.
	create(id string, role Role, batch []*pending) ([]byte, error)
	// respond returns the client event that asks the model to respond, and its event id;
	// nil if the API has none.
	respond(id string) (frame []byte, eventID string)
	// decode parses a server event, or the beginning of one. It returns false for events
	// that do not matter here.
	decode(b []byte, whole bool) (serverEvent, bool)
}

const itemPrefix = "mt_"

// batchID returns the id of the item for a batch.
func batchID(batch []*pending) string {
	if len(batch) == 1 {
		return batch[0].ItemID
	}
	ids := make([]string, len(batch))
	for i, p := range batch {
		ids[i] = p.ItemID
	}
	return hashID(ids...)
}

// eventIDOf returns the id of the client event that creates an item.
func eventIDOf(itemID string) string { return "evt_" + itemID }

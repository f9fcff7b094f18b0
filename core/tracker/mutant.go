package tracker

// mutation names a defect that a test-only build plants, to prove that the
// properties of the tests catch it. In every other build the comparisons with
// mutant are constant and cost nothing.
type mutation uint8

const (
	mutantNone        mutation = iota
	mutantLeadingOnly          // a second change inside a window is never told
	mutantLateClear            // the dirty bit is cleared after the read
	mutantEventFirst           // the event goes out first, the read after it is taken as told
	mutantStaleRead            // a read that began before the signal counts as its read
	mutantReadFirst            // reading comes before subscribing
	mutantCachedRead           // a resync believes what was read before
)

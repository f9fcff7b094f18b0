package lock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/peertest"
)

// TestCanonicalNumbers has the samples of RFC 8785, appendix B.
func TestCanonicalNumbers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		bits uint64
		want string
	}{
		{0x0000000000000000, "0"},
		{0x8000000000000000, "0"},
		{0x0000000000000001, "5e-324"},
		{0x8000000000000001, "-5e-324"},
		{0x7fefffffffffffff, "1.7976931348623157e+308"},
		{0xffefffffffffffff, "-1.7976931348623157e+308"},
		{0x4340000000000000, "9007199254740992"},
		{0xc340000000000000, "-9007199254740992"},
		{0x4430000000000000, "295147905179352830000"},
		{0x44b52d02c7e14af5, "9.999999999999997e+22"},
		{0x44b52d02c7e14af6, "1e+23"},
		{0x44b52d02c7e14af7, "1.0000000000000001e+23"},
		{0x444b1ae4d6e2ef4e, "999999999999999700000"},
		{0x444b1ae4d6e2ef4f, "999999999999999900000"},
		{0x444b1ae4d6e2ef50, "1e+21"},
		{0x3eb0c6f7a0b5ed8c, "9.999999999999997e-7"},
		{0x3eb0c6f7a0b5ed8d, "0.000001"},
		{0x41b3de4355555553, "333333333.3333332"},
		{0x41b3de4355555554, "333333333.33333325"},
		{0x41b3de4355555555, "333333333.3333333"},
		{0x41b3de4355555556, "333333333.3333334"},
		{0x41b3de4355555557, "333333333.33333343"},
		{0xbecbf647612f3696, "-0.0000033333333333333333"},
		{0x43143ff3c1cb0959, "1424953923781206.2"},
	} {
		number := math.Float64frombits(test.bits)
		for _, spelling := range []string{
			strconv.FormatFloat(number, 'e', 30, 64),
			strconv.FormatFloat(number, 'E', -1, 64),
			strconv.FormatFloat(number, 'f', 400, 64),
		} {
			if got, err := canonicalize([]byte(spelling)); err != nil || string(got) != test.want {
				t.Errorf("%016x as %s: %s, %v; want %s", test.bits, spelling, got, err, test.want)
			}
		}
	}
}

// TestPublishedHashes: the examples of RFC 8785 and other published vectors of mcp-pin's "Tool
// definition hash, version 1" (docs/tool-definition-hash-vectors.json of GautamTalksDev/mcp-pin, MIT).
func TestPublishedHashes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, definition, canonical, hash string }{
		{"RFC 8785, 3.2.3: order of members",
			`{"\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
			 "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"}`,
			"{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u0080\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\ufb33\":\"Hebrew Letter Dalet With Dagesh\"}",
			"5e321556d22018a9656991a9e94f77ec175fa193e52a2429d312f8419ec8b08c"},
		{"RFC 8785, 3.2.2: numbers and escapes",
			`{"numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
			 "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/", "literals": [null, true, false]}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`,
			"2d5e01a318d0f0879ab568c4be289c8b1f64ef8921a53c6277d5e069978baacb"},
		{"a tool with its members out of order",
			`{ "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
			 "name": "weather", "description": "Get the current weather for a city." }`,
			`{"description":"Get the current weather for a city.","inputSchema":{"properties":{"city":{"type":"string"}},"required":["city"],"type":"object"},"name":"weather"}`,
			"f6d1913a45f2a5ea95ceb161b4e08eed245a1808044f3a358705d2641b6fb37d"},
		{"numbers of a schema",
			`{"name":"n","inputSchema":{"type":"object","properties":{"k":{"type":"number","minimum":1.0,"maximum":1E3,"multipleOf":0.000001,"default":-0,"exclusiveMinimum":1e-7}}}}`,
			`{"inputSchema":{"properties":{"k":{"default":0,"exclusiveMinimum":1e-7,"maximum":1000,"minimum":1,"multipleOf":0.000001,"type":"number"}},"type":"object"},"name":"n"}`,
			"913c935b054edcf4398e3e5de60422a1f057f7970ff214a25bc48eb67a6d810f"},
		{"an integer beyond 2^53",
			`{"name":"big","inputSchema":{"type":"object","properties":{"id":{"type":"integer","maximum":12345678901234567890}}}}`,
			`{"inputSchema":{"properties":{"id":{"maximum":12345678901234567000,"type":"integer"}},"type":"object"},"name":"big"}`,
			"6c77e7c22b65775684e716148e5f5364ffedfbb7333741f0cc0650da9ecc2167"},
		{"control characters",
			`{"name":"esc","description":"Line one\nTab\there \u001b[2J and \u2028 then \/ and \ud83d\ude00 caf\u00e9"}`,
			"{\"description\":\"Line one\\nTab\\there \\u001b[2J and \u2028 then / and 😀 café\",\"name\":\"esc\"}",
			"f1960a7b888f4e220e0085c0edf1611809caec6db62ad93be713cdd43d4df200"},
	} {
		canonical, err := canonicalize([]byte(test.definition))
		if err != nil || string(canonical) != test.canonical {
			t.Errorf("%s: %s, %v\nwant %s", test.name, canonical, err, test.canonical)
		}
		if got := sum(canonical); got != test.hash {
			t.Errorf("%s: %s", test.name, got)
		}
		if got, _, err := (Hashing{}).hash(SectionTools, canonical); err != nil || got != test.hash {
			t.Errorf("%s: %s, %v", test.name, got, err)
		}
	}
	for text, want := range map[string]string{
		`"Use the weather tool for forecasts."`:              "59b91e0aff7e5e13f5c7eb890497066a703efae55ff61eee2151081704b8ff64",
		`"Pr\u00e9visions m\u00e9t\u00e9o ☀\nUse the tool."`: "bf762870f070b82a778d486b45b868640990266fed5decd5af715722381acf42",
	} {
		if it := DefaultHashing().Item(SectionInstructions, []byte(text)); it.Hash != want || it.Key != "" {
			t.Errorf("%s: %+v", text, it)
		}
	}
	for want, definitions := range map[string][]string{
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855": {},
		"dbc6a9bbec4bcc2a77ce357dc0d96d15a053da10ddefc0b4bdc1a48507df7521": {
			`{"name":"weather","description":"Get the current weather for a city.","inputSchema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}`,
			`{"name":"alerts","description":"Weather alerts for a state.","inputSchema":{"type":"object","properties":{"state":{"type":"string"}}}}`},
		"46c3adb41d72d87a89a0365e361324499dddc4f352feee3083c173602063a23b": {`{"name":"dup","description":"b"}`, `{"name":"dup","description":"a"}`},
	} {
		var items []Item
		for _, definition := range definitions {
			items = append(items, DefaultHashing().Item(SectionTools, []byte(definition)))
		}
		if got := SetHash(items); got != want {
			t.Errorf("%q: %s, want %s", definitions, got, want)
		}
	}
}

func TestSetsAreSortedByCodeUnits(t *testing.T) {
	t.Parallel()
	got := SetHash([]Item{{Key: "\ufb33", Hash: "b"}, {Key: "😀", Hash: "a"}})
	if want := sum([]byte("😀:a\n\ufb33:b")); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestItemProblems(t *testing.T) {
	t.Parallel()
	deep := func(n int) string {
		return `{"name":"d","x":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}`
	}
	for _, test := range []struct {
		section      Section
		definition   string
		key, problem string // problem: a part of it; empty if there is none
	}{
		{SectionTools, `{"name":"x","description":"a","description":"b"}`, "x", "duplicate object member name at /description"},
		{SectionTools, `{"name":"x","name":"y"}`, "y", "duplicate"},
		{SectionTools, `{"name":"x","inputSchema":{"type":"object","\u0074ype":"string"}}`, "x", "at /inputSchema"},
		{SectionTools, "{\"name\":\"x\",\"description\":\"\xff\"}", "x", "invalid UTF-8"},
		{SectionTools, `{"name":"odd","description":"x\uDEADy"}`, "odd", "invalid surrogate pair"},
		{SectionTools, `{"name":"x","maximum":1e309}`, "x", "the number 1e309 is too large"},
		{SectionTools, `{"name":"x","maximum":-1e309}`, "x", "the number -1e309 is too large"},
		{SectionTools, `{"name":"x","maximum":1` + strings.Repeat("0", 400) + `}`, "x", "is too large"},
		{SectionTools, `{"name":"x","maximum":1.7976931348623157e+308}`, "x", ""},
		{SectionTools, `{"name":"x","maximum":"1.7976931348623157e+308"}`, "x", ""},
		{SectionTools, `{"name":"x","minimum":1e-999}`, "x", ""},
		{SectionTools, deep(catalog.MaxDepth - 1), "d", ""},
		{SectionTools, deep(catalog.MaxDepth), "d", "nested 65 levels deep"},
		{SectionTools, strings.Repeat("[", 1<<20), "", "nested"},
		{SectionTools, `{"description":"no name"}`, "", "it has no name"},
		{SectionTools, `{"name":7}`, "", "it has no name"},
		{SectionTools, `{"name":"x","name":{}}`, "", "duplicate"},
		{SectionTools, `{"x":{"name":"y"},"name":"x"}`, "x", ""},
		{SectionTools, `{"name":""}`, "", "it has no name"},
		{SectionTools, `["name"]`, "", "it is not a JSON object"},
		{SectionTools, `null`, "", "it is not a JSON object"},
		{SectionTools, ``, "", "EOF"},
		{SectionTools, `{"name":"x"`, "x", "EOF"},
		{SectionTools, `{"name":"x"} {}`, "x", "after top-level value"},
		{SectionPrompts, `{"name":"p"}`, "p", ""},
		{SectionTemplates, `{"uriTemplate":"a://{b}"}`, "a://{b}", ""},
		{SectionResources, `{"uri":"a://b","name":"c"}`, "a://b", ""},
		{SectionResources, `{"name":"c"}`, "", "it has no uri"},
		{SectionCapabilities, `{"tools":{}}`, "", ""},
		{SectionCapabilities, `"tools"`, "", "it is not a JSON object"},
		{SectionLaunch, `{"command":"npx"}`, "", ""},
		{SectionInstructions, `""`, "", ""},
		{SectionInstructions, `{}`, "", "it is not a JSON string"},
		{SectionContents, string(Content("a://b", "", []byte("text"), true)), "a://b", ""},
		{SectionContents, `{"uri":"a://b"}`, "a://b", "no valid size and sha256"},
		{SectionContents, `{"uri":"a://b","size":4,"sha256":"` + sum([]byte("text")) + `","text":"evil"}`, "a://b", "its text is not the content"},
		{SectionContents, `{"uri":"a://b","size":400,"sha256":"` + sum([]byte("text")) + `","text":"evil"}`, "a://b", "its text is not the content"},
		{SectionContents, `{"uri":"a://b","size":1,"sha256":"` + sum([]byte("text")) + `","text":"evil"}`, "a://b", "its text is not the content"},
	} {
		it := DefaultHashing().Item(test.section, []byte(test.definition))
		if it.Key != test.key || test.problem == "" != (it.Problem == "") || !strings.Contains(it.Problem, test.problem) || isHash(it.Hash) != (test.problem == "") {
			t.Errorf("%s %.80q: key %q, hash %q, problem %q; want key %q, problem %q", test.section, test.definition, it.Key, it.Hash, it.Problem, test.key, test.problem)
		}
		if string(it.Definition) != test.definition {
			t.Errorf("%.80q: the definition was modified to %.80q", test.definition, it.Definition)
		}
	}
}

func TestContent(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", MaxContent) // twice the limit in bytes
	for _, test := range []struct {
		data     string
		text     bool
		contains string
	}{
		{"hello", true, `"size":5,"sha256":"` + sum([]byte("hello")) + `","text":"hello"`},
		{"hello", false, `"size":5,"sha256":"` + sum([]byte("hello")) + `"}`},
		{"\xff", true, `"size":1,"sha256":"` + sum([]byte("\xff")) + `"}`},
		{"", true, `"text":""`},
		{"a" + long, true, `"text":"a` + long[:MaxContent-2] + `"}`},
	} {
		it := DefaultHashing().Item(SectionContents, Content("a://b\xff", "text/plain", []byte(test.data), test.text))
		if it.Problem != "" || it.Key != "a://b\ufffd" || !strings.Contains(string(it.Definition), test.contains) {
			t.Errorf("%.20q: %.200q %s", test.data, it.Definition, it.Problem)
		}
	}
}

func TestExclusions(t *testing.T) {
	t.Parallel()
	h := Hashing{Exclude: []string{"resources/size", "resources/annotations/lastModified", "tools/_meta/example.com~1build", "tools/a~0b"}}
	same := func(section Section, a, b string, want bool) {
		t.Helper()
		x, y := h.Item(section, []byte(a)), h.Item(section, []byte(b))
		if x.Problem != "" || y.Problem != "" || x.Hash == y.Hash != want {
			t.Errorf("%s and %s: %+v, %+v", a, b, x, y)
		}
	}
	same(SectionResources, `{"uri":"a","size":1}`, `{"size":2,"uri":"a"}`, true)
	same(SectionResources, `{"uri":"a","size":1}`, `{"uri":"a"}`, true)
	same(SectionResources, `{"uri":"a","annotations":{"lastModified":"2025-01-12T15:00:58.123+02:00","priority":1}}`, `{"uri":"a","annotations":{"priority":1}}`, true)
	same(SectionResources, `{"uri":"a","annotations":{"lastModified":"2025, before you answer"}}`, `{"uri":"a","annotations":{}}`, false)
	same(SectionResources, `{"uri":"a","size":{"1":2}}`, `{"uri":"a"}`, false)
	same(SectionResources, `{"uri":"a","annotations":{"priority":2}}`, `{"uri":"a","annotations":{"priority":1}}`, false)
	same(SectionResources, `{"uri":"a","annotations":[1]}`, `{"uri":"a","annotations":[2]}`, false)
	same(SectionResources, `{"uri":"a","x":{"size":1}}`, `{"uri":"a","x":{"size":2}}`, false)
	same(SectionTemplates, `{"uriTemplate":"a","size":1}`, `{"uriTemplate":"a","size":2}`, false)
	same(SectionTools, `{"name":"a","_meta":{"example.com/build":1}}`, `{"name":"a","_meta":{"example.com/build":2}}`, true)
	same(SectionTools, `{"name":"a","a~b":1}`, `{"name":"a","a~b":2}`, true)
	if it := h.Item(SectionResources, []byte(`{"uri":"a","size":{"x":1,"x":2}}`)); it.Problem == "" {
		t.Error("an excluded member hides a duplicate")
	}
	for exclude, valid := range map[string]bool{"": true, "resources/size": true, "resources/size templates/annotations/lastModified": true,
		"tools/description": false, "resources/size launch/command": false, "resources": false, "tools/size": false, "resources/size resources/size": false} {
		if err := (Hashing{Exclude: strings.Fields(exclude)}).check(); err == nil != valid {
			t.Errorf("%q: %v", exclude, err)
		}
	}
	if err := DefaultHashing().check(); err != nil {
		t.Error(err)
	}
}

// randomJSON writes a random value whose hash is defined.
func randomJSON(r *rand.Rand, b *bytes.Buffer, depth int) {
	switch n := r.IntN(8); {
	case n == 0 && depth > 0:
		b.WriteByte('[')
		for i := range r.IntN(4) {
			if i > 0 {
				b.WriteString(" ,\n")
			}
			randomJSON(r, b, depth-1)
		}
		b.WriteByte(']')
	case n < 4 && depth > 0:
		b.WriteByte('{')
		for i := range r.IntN(6) {
			if i > 0 {
				b.WriteByte(',')
			}
			name, _ := json.Marshal(fmt.Sprintf("%c%d", randomRune(r), i))
			b.Write(name)
			b.WriteByte(':')
			randomJSON(r, b, depth-1)
		}
		b.WriteByte('}')
	case n < 6:
		for {
			number := math.Float64frombits(r.Uint64())
			if r.IntN(2) == 0 {
				number = float64(r.Int64()-r.Int64()) * math.Pow10(r.IntN(40)-20)
			}
			if math.IsNaN(number) || math.IsInf(number, 0) {
				continue
			}
			b.WriteString(strconv.FormatFloat(number, "eEfg"[r.IntN(4)], []int{-1, 25}[r.IntN(2)], 64))
			return
		}
	case n == 6:
		text := make([]rune, r.IntN(10))
		for i := range text {
			text[i] = randomRune(r)
		}
		quoted, _ := json.Marshal(string(text))
		b.Write(quoted)
	default:
		b.WriteString([]string{"true", "false", "null", "0", "-0", `"\/"`}[r.IntN(6)])
	}
}

// randomRune returns a character, often one that JSON escapes or that UTF-16 sorts differently.
func randomRune(r *rand.Rand) rune {
	switch r.IntN(5) {
	case 0:
		return rune(r.IntN(0x20))
	case 1:
		return 0xe000 + rune(r.IntN(0x2000))
	case 2:
		return 0x10000 + rune(r.IntN(0x100000))
	default:
		return rune(r.IntN(0x800))
	}
}

// TestRealSecondImplementation compares our hashes with the hashes of an implementation in JavaScript.
func TestRealSecondImplementation(t *testing.T) {
	t.Parallel()
	node := peertest.Node(t)
	type line struct {
		Section    Section  `json:"section"`
		Exclude    []string `json:"exclude"`
		Definition string   `json:"definition"`
	}
	exclude := []string{"tools/_meta", "tools/x/y", "resources/size"}
	lines := []line{
		{SectionInstructions, exclude, `"é \u0000 \ud83d\ude00"`},
		{SectionTools, exclude, `{"name":"x","_meta":1,"x":{"y":[1e21,1e-7],"z":1}}`},
		{SectionTools, exclude, `{"name":"x","_meta":"2025-01-12T15:00:58Z","x":{"y":-1e-7,"z":1}}`},
		{SectionTools, exclude, `{"name":"x","_meta":"2025, first","x":{"y":true}}`},
		{SectionResources, exclude, `{"uri":"x","size":7,"__proto__":{"a":1.50}}`},
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var b bytes.Buffer
		randomJSON(r, &b, 4)
		lines = append(lines, line{SectionTools, exclude, `{"name":"x","y":` + b.String() + `}`})
	}
	var input bytes.Buffer
	for _, l := range lines {
		must(t, json.NewEncoder(&input).Encode(l))
	}
	cmd := exec.CommandContext(t.Context(), node, "testdata/hash.mjs")
	cmd.Stdin = &input
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	hashes := strings.Fields(string(out))
	if err != nil || len(hashes) != len(lines) {
		t.Fatalf("%d hashes, %v\n%s", len(hashes), err, stderr.String())
	}
	for i, l := range lines {
		if it := (Hashing{Exclude: exclude}).Item(l.Section, []byte(l.Definition)); it.Hash != hashes[i] {
			t.Fatalf("%s %s: %s (%s); Node.js says %s", l.Section, l.Definition, it.Hash, it.Problem, hashes[i])
		}
	}
}

func FuzzHash(f *testing.F) {
	for _, seed := range []string{`{"name":"x"}`, `{"name":"x","a":[1e999,-0,1.50]}`, `"\ud83d\ude00"`, `{"a":1,"a":2}`, "\"\xff\"", `{"name":"x","size":{"b":1},"_meta":{"a/b":2}}`, `{"name":"x","a":12345678901234567890,"size":1e-999}`} {
		f.Add(seed)
	}
	h := Hashing{Exclude: []string{"tools/_meta/a~1b", "tools/size"}}
	f.Fuzz(func(t *testing.T, text string) {
		it := h.Item(SectionTools, []byte(text))
		if (it.Hash == "") == (it.Problem == "") {
			t.Fatalf("%+v", it)
		}
		if it.Problem != "" {
			return
		}
		// Any way to write the same value has the same hash.
		v := jsontext.Value(text)
		must(t, v.Indent())
		if other := h.Item(SectionTools, json.RawMessage(v)); other.Hash != it.Hash || other.Key != it.Key {
			t.Fatalf("%+v, %+v", it, other)
		}
		canonical, err := canonicalize([]byte(text))
		must(t, err)
		if again, err := canonicalize(json.RawMessage(canonical)); err != nil || !bytes.Equal(again, canonical) {
			t.Fatalf("%s, %v", again, err)
		}
		var value any
		must(t, jsonv2.Unmarshal(canonical, &value))
	})
}

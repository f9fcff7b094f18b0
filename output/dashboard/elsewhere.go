package dashboard

import (
	"net/http"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/status"
)

// elsewhere handles a request about a server that another process follows: it calls f with the
// stored states of the server's resources, sorted by URI, or refuses the request.
func (d *Dashboard) elsewhere(w http.ResponseWriter, r *http.Request, f func([]resource)) {
	id := r.PathValue("id")
	known := func(s status.Summary) bool { return s.ID == id }
	if d.opts.Stored == nil || !slices.ContainsFunc(d.opts.Servers(), known) {
		refuse(w, http.StatusNotFound, "no such server")
		return
	}
	states, err := d.opts.Stored(r.Context(), id)
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, "the stored state of the server cannot be read")
		return
	}
	out := make([]resource, 0, len(states.Resources))
	for at, st := range states.Resources {
		res := resource{URI: at.URI, MimeType: st.MimeType, Size: st.Size, Changed: stamp(st.When)}
		switch st.Digest {
		case catalog.Gone():
			res.Gone = true
		case catalog.Unread(): // its digest is not known
		default:
			res.Digest = st.Digest.String()
		}
		out = append(out, res)
	}
	slices.SortFunc(out, func(a, b resource) int { return strings.Compare(a.URI, b.URI) })
	f(out)
}

// storedContent answers with the text of a resource of a server that another process follows,
// if that process has stored it. all are the resources of the server.
func (d *Dashboard) storedContent(w http.ResponseWriter, r *http.Request, all []resource) {
	uri, digest := r.URL.Query().Get("uri"), r.URL.Query().Get("digest")
	i := slices.IndexFunc(all, func(res resource) bool { return res.URI == uri })
	if i < 0 {
		refuse(w, http.StatusNotFound, "the resource is not followed")
		return
	}
	out := content{resource: all[i]}
	if digest == "" {
		digest = out.Digest
	}
	text, found := d.version(r.Context(), digest)
	if !found {
		refuse(w, http.StatusNotFound, "the text is known only to the process that follows the server: "+d.process(r.PathValue("id")))
		return
	}
	if digest != out.Digest {
		out.Digest, out.Size, out.Changed = digest, int64(len(text)), ""
	}
	out.Text = &text
	answer(w, out)
}

// process returns the name of the process that follows a server, "no process at present" if none does.
func (d *Dashboard) process(id string) string {
	for _, s := range d.opts.Servers() {
		if s.ID == id && s.FollowedBy != "" {
			return s.FollowedBy
		}
	}
	return "no process at present"
}

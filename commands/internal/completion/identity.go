package completion

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"github.com/mcptrack/mcptrack/core/config"
)

// identity identifies a program or URL with everything it is given, since a different
// environment may make it a different program. It is a hash and reveals no secret.
func identity(srv config.Server) string {
	h := sha256.New()
	put := func(s string) { fmt.Fprintf(h, "%d:%s", len(s), s) }
	for _, s := range append([]string{string(srv.Transport), srv.URL.Reveal(), srv.Dir, srv.Command}, srv.Args...) {
		put(s)
	}
	o := srv.OAuth
	for _, s := range append([]string{o.ClientID, o.ClientSecret.Reveal(), o.PrivateKeyFile, o.ClientMetadataURL, o.AuthServerMetadataURL, o.RedirectURI, string(o.Grant)}, o.Scopes...) {
		put(s)
	}
	for _, m := range []map[string]config.Secret{srv.Env, srv.Headers} {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			put(name)
			put(m[name].Reveal())
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

package login

import "strings"

// resourceMeta is the metadata of a protected resource (RFC 9728, section 2), as far as it is used.
type resourceMeta struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	ScopesSupported      []string `json:"scopes_supported"`
}

// serverMeta is the metadata of an authorization server (RFC 8414, section 2; RFC 9207, section 3; Client
// ID Metadata Documents, section 5), as far as it is used.
type serverMeta struct {
	Issuer                                     string   `json:"issuer"`
	AuthorizationEndpoint                      string   `json:"authorization_endpoint"`
	TokenEndpoint                              string   `json:"token_endpoint"`
	RegistrationEndpoint                       string   `json:"registration_endpoint"`
	RevocationEndpoint                         string   `json:"revocation_endpoint"`
	ScopesSupported                            []string `json:"scopes_supported"`
	TokenEndpointAuthMethodsSupported          []string `json:"token_endpoint_auth_methods_supported"`
	CodeChallengeMethodsSupported              []string `json:"code_challenge_methods_supported"`
	ClientIDMetadataDocumentSupported          bool     `json:"client_id_metadata_document_supported"`
	AuthorizationResponseIssParameterSupported bool     `json:"authorization_response_iss_parameter_supported"`
}

// scheme is one challenge of a WWW-Authenticate header. Its name and the names of its parameters are in
// lower case.
type scheme struct {
	name   string
	params map[string]string
}

const (
	space   = " \t"
	letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	token   = "!#$%&'*+-.^_`|~" + letters
	token68 = "-._~+/" + letters // may end with =
)

// parseSchemes parses a WWW-Authenticate header (RFC 9110, section 11.6.1), or returns nil if it is
// malformed. Values that should be quoted, such as URLs, may also not be.
func parseSchemes(rest string) (all []scheme) {
	for rest = strings.TrimLeft(rest, space+","); rest != ""; rest = strings.TrimLeft(rest, space+",") {
		after := strings.TrimLeft(rest, token)
		name := strings.ToLower(rest[:len(rest)-len(after)])
		rest = strings.TrimLeft(after, space)
		value, isParam := strings.CutPrefix(rest, "=")
		switch {
		case name == "", isParam && all == nil:
			return nil
		case isParam:
			var ok bool
			if all[len(all)-1].params[name], rest, ok = cutValue(strings.TrimLeft(value, space)); !ok {
				return nil
			}
		default:
			all = append(all, scheme{name, map[string]string{}})
			end := strings.TrimLeft(strings.TrimLeft(strings.TrimLeft(rest, token68), "="), space)
			if end == "" || end[0] == ',' {
				rest = end // after a token68 or nothing
			}
		}
	}
	return all
}

// cutValue splits a text after the value of a parameter. ok is false if the value is not complete.
func cutValue(text string) (value, rest string, ok bool) {
	quoted, isQuoted := strings.CutPrefix(text, `"`)
	if !isQuoted {
		end := len(text)
		if i := strings.IndexAny(text, space+","); i >= 0 {
			end = i
		}
		return text[:end], text[end:], end > 0
	}
	var b strings.Builder
	for i := 0; i < len(quoted); i++ {
		switch {
		case quoted[i] == '"':
			return b.String(), quoted[i+1:], true
		case quoted[i] == '\\' && i+1 < len(quoted):
			i++
		}
		b.WriteByte(quoted[i])
	}
	return "", "", false
}

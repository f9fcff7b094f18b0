package mcp

// ExtensionSkills identifies the Skills extension (SEP-2640), whose entries package skill defines.
const ExtensionSkills = "io.modelcontextprotocol/skills"

// Methods of the Skills extension. MethodReadDirectory is optional: a client may call it only if the
// server declares the setting "directoryRead".
const (
	MethodListSkills    = "skills/list"
	MethodGetSkill      = "skills/get"
	MethodReadDirectory = "resources/directory/read"
)

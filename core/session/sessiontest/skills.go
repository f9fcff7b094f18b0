package sessiontest

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/mcptrack/mcptrack/core/mcp"
)

// OfferSkills declares the Skills extension. Call it before the server is served.
func (s *Fake) OfferSkills() {
	s.Capabilities["extensions"] = map[string]any{mcp.ExtensionSkills: map[string]any{}}
}

// SkillMain returns the content of SKILL.md for a skill with this name and description.
func SkillMain(name, description string) string {
	return "---\nname: " + name + "\ndescription: " + description + "\n---\n\n# " + name + "\n"
}

// Skill returns the entry of the skill at skill://NAME, whose SKILL.md is [SkillMain]. files has the
// contents of its other files by their relative paths.
func Skill(name, description string, files map[string]string) map[string]any {
	dir := "skill://" + name + "/"
	all := map[string]string{"SKILL.md": SkillMain(name, description)}
	maps.Copy(all, files)
	resources := []any{}
	for _, path := range slices.Sorted(maps.Keys(all)) {
		resources = append(resources, map[string]any{"uri": dir + path, "size": len(all[path]),
			"digest": fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(all[path])))})
	}
	return map[string]any{"uri": dir + "SKILL.md", "resources": resources,
		"frontmatter": map[string]any{"name": name, "description": description}}
}

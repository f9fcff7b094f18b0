package cli

import (
	"strings"

	"github.com/spf13/cobra"
)

// PageAnnotation is the annotation of commands whose Long text is a page of the manual; its value
// is the name of the page. The page is read only for help, because most runs do not need it.
const PageAnnotation = "mcptrack_page"

// ManualPage returns the annotation for a page of the manual.
func ManualPage(name string) map[string]string { return map[string]string{PageAnnotation: name} }

const mainFlagsAnnotation = "mcptrack_main_flags"

// MainFlags selects the flags of a command, at most five, that its short help shows.
func MainFlags(cmd *cobra.Command, names ...string) {
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[mainFlagsAnnotation] = strings.Join(names, " ")
}

// MainFlagsOf returns the flags that MainFlags selected.
func MainFlagsOf(cmd *cobra.Command) []string {
	return strings.Fields(cmd.Annotations[mainFlagsAnnotation])
}

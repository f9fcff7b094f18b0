package cli

// PageAnnotation is the annotation of commands whose Long is a page of the manual, with the
// name of the page. The page is only read for help, as most starts do not need it.
const PageAnnotation = "mcptrack_page"

func ManualPage(name string) map[string]string { return map[string]string{PageAnnotation: name} }

"""Pictures of a run: `panels` has the content, `marks` names and colours; `static` draws them for papers."""

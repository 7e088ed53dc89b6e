"""What is drawn of a run (`panels`, in the words and colours of `marks`), and how it is drawn for papers (`static`)."""

module sternpost.dev/go

go 1.24

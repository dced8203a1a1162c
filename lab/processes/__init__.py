"""Child processes of a lab: ports, JVM command lines, jars and class archives."""

// Is compiled for its precompiled header, which the tests share (tests/CMakeLists.txt).
int main() {}

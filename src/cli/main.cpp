#include <cstdio>

int main() {
  std::puts("kda");
  return 0;
}

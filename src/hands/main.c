/* main.c - sandpool-oci: the hands of the `oci` backend. One step per process. */
int main(void)
{
    return 2;
}
